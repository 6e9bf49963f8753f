"""The terms that all capabilities share: requests, states, records, looks, reasons.

The models are frozen and validate data wherever it comes in. A field added later needs a default. The glossary has the
terms.
"""
