"""What tests of every kind use. Folders: one for each part that tests stand up or stand in for."""
