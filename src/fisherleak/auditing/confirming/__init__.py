"""What an audit of a released model compares its card with, and what it leaves open; may import what ``auditing`` may."""
