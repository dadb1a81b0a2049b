-- Run once, in single-user mode, before a new embedded cluster gets its final name: one statement a line.
-- The owner is what a managed service hands out: it can make roles and databases, and is not a superuser.
CREATE ROLE sluice_owner LOGIN CREATEROLE CREATEDB;
ALTER ROLE sluice_owner SET createrole_self_grant = 'set, inherit';
GRANT pg_read_all_stats TO sluice_owner WITH ADMIN TRUE;
GRANT pg_signal_backend TO sluice_owner WITH ADMIN TRUE;
CREATE DATABASE sluice OWNER sluice_owner;
