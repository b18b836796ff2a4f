"""From a turn to the memories that it should see, by a deadline, and their text (ADR-0047)."""
