-- An ended run may run again; that also takes back what was asked about stopping it.
update ops.runs
set status = 'accepted', outcome = null, failure = null, cause = null, finished_at = null,
    recoveries = 0, cancel_requested_at = null, cancel_requested_by = null, cancel_reason = null
where run_id = %s
