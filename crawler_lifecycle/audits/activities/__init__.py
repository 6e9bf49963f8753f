"""Activities: thin classes over ports. They take and return a single model, and running them twice is safe."""
