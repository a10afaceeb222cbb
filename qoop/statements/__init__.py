"""What statements other than queries do: views, tables, files, parameters."""
