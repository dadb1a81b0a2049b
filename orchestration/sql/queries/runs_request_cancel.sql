-- Asks for an unfinished run to be stopped; no row when it has ended. A repeated request stands as it was.
update ops.runs
set cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
    cancel_requested_by = coalesce(cancel_requested_by, %(actor)s, session_user),
    cancel_reason = coalesce(cancel_reason, %(reason)s)
where run_id = %(run_id)s and status in ('accepted', 'running')
returning run_id
