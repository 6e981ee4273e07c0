"""Proves the suite: peers, papers, virtual clusters and faults. Of no use to a site."""
