// The text is in `docs/guide/`, one file for each chapter. Only rustdoc compiles this module.
