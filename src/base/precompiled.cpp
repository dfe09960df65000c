// The precompiled header of all modules needs a source to belong to.
