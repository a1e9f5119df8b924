"""From an audit to a plain dictionary, and from that to one HTML file."""
