"""The collector: a service to which people's own devices send private reports."""
