"""What a release reveals, measured, kept, composed and shown: may import ``models`` and the folders above it, nothing below."""
