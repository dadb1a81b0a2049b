-- Leases that belong to nothing, and verdicts of forgotten runs that are older than this.
select ops.forget_ended(clock_timestamp() - %s::interval)
