"""Commands and questions for people and programs."""
