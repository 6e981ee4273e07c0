"""What a cluster is and what works there: asked of its scheduler, and tried by a job of seconds."""
