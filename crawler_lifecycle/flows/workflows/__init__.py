"""The flows' workflows: a supervisor for every flow, and a starter for every scheduled flow."""
