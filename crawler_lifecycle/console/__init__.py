"""The toolkit of `crawlctl`: options, printing, words, failures. It knows no command."""
