"""Rules: pure functions of rows and looks. The time comes as an argument."""
