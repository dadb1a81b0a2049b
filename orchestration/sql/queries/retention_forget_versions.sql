-- Candidates of a pipeline that were dropped before this long.
select ops.forget_dropped_versions(%s, clock_timestamp() - %s::interval)
