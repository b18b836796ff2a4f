"""From a turn to the memories that it should see (ADR-0047, design.md section 6 "Retrieve")."""
