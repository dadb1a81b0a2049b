-- Stops what the sessions of this role and this name are executing; the sessions stay.
select pg_cancel_backend(pid)
from pg_stat_activity
where datname = current_database()
    and usename = current_user
    and application_name = current_setting('application_name')
    and state <> 'idle'
    and pid <> pg_backend_pid()
