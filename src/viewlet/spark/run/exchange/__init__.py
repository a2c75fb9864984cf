"""What travels between the driver and the tasks: contents as bytes, the inputs of stages, errors."""
