"""What the report says in words: meanings, sentences, the verdict; may import what ``report`` may."""
