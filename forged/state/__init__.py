"""Small durable state of the daemon that is not a memory."""
