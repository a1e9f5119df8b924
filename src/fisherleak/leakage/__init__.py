"""What a release reveals, measured, kept, composed and shown: may import ``models`` and the rooms above it, nothing below."""
