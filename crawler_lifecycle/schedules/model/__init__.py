"""The data of this capability: frozen models that cross Temporal and HTTP."""
