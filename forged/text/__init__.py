"""What is done to text: pure functions that know no other part of forged."""
