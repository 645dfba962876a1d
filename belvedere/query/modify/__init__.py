"""INSERT, UPDATE, DELETE and BATCH: begin at `plan`; some of them read before they write."""
