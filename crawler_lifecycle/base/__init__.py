"""Helpers without a subject of their own: names, pauses, words, files, threads."""
