-- Asking for a run again takes back what was asked before.
update ops.runs
set cancel_requested_at = null, cancel_requested_by = null, cancel_reason = null
where run_id = %s and cancel_requested_at <= %s
