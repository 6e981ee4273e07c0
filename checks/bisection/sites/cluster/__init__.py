"""Surveys a cluster by its scheduler, and tries what works by a job of a few seconds."""
