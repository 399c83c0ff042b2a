"""Linear maps kept in their structure, and their Gram matrices."""
