"""What a release reveals: measured, kept, composed and shown.

May import ``_support``, ``rows``, ``engine`` and ``models``; what lies below is opened through ``doors`` alone.
"""
