"""The data types of attributes: parse, check, coerce, describe."""
