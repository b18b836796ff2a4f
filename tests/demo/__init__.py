"""Two machines of one user and a team's PostgreSQL, in a demo that checks itself: `make demo-shared`."""
