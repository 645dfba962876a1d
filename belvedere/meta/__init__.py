"""The one truth: ClusterState snapshots over a metadata store."""
