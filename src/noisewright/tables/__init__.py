"""Counting engines: tables of people in, counts of declared cells out.

One row is one person. Engines never print, log or raise anything that holds a value of a record.
"""
