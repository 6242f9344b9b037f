"""The views: they read events and show them; they never steer."""
