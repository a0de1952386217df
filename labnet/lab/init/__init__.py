"""PID 1 of a lab: zygote, reaper and supervisor."""
