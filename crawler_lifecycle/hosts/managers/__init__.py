"""Hosting of crawl managers: a process for each manager."""
