"""Released models of tables: their noise, cards, files and ledgers; may import ``training`` and the folders above it."""
