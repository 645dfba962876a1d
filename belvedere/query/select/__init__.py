"""SELECT: begin at `plan`, which `run` executes and `fast` short-cuts; rows come from `source`."""
