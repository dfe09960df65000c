"""How `rehearse_sim.capture` runs a module without a GPU and without weights."""
