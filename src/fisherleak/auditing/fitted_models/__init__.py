"""Models that were fitted elsewhere, audited as a table's are: summary, utility, attacks; may import what ``auditing`` may."""
