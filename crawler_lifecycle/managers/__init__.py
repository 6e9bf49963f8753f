"""Crawl managers, for authors: classes whose objects choose which crawl comes next."""
