"""No curator: each person randomises their own report; the collector learns the workload."""
