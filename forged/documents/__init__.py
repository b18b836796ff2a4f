"""Documents of an organization: read, and cut into pieces that overlap."""
