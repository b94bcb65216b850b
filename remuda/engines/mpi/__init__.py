"""The MPI engine: members split over the ranks of a job."""
