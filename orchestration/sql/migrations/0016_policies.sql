-- What a gate leaves out of a version, because its pipeline says so.

alter table quarantine.partitions add column rules text check (rules ~ '^[0-9a-f]{64}$');
comment on column quarantine.partitions.rules is
    'digest of the rules by which a gate left it out: by others it is judged anew; null: not left out so';

create function ops.leave_out(p_version_id text, p_rules text) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_partitions text[];
begin
    v_partitions := ops.set_aside(p_version_id, 'held', null);
    if exists (
        select from ops.versions v join ops.manifest_artifacts m using (manifest_id)
        where v.version_id = p_version_id
            and not exists (
                select from ops.artifacts a
                where a.pipeline = v.pipeline and a.resource = m.resource and a.acceptance = 'accepted'
            )
    ) then
        raise exception 'nothing would be left' using errcode = 'SL013';
    end if;
    update quarantine.partitions p set rules = p_rules
    from ops.artifacts a
    where a.artifact_id = p.artifact_id and a.partition = any(v_partitions) and a.acceptance = 'rejected'
        and a.pipeline = (select v.pipeline from ops.versions v where v.version_id = p_version_id)
        and p.decision = 'held' and p.breaches is not null;
    return v_partitions;
exception when sqlstate 'SL013' then
    return '{}';
end
$$;
comment on function ops.leave_out is
    'Keeps out what was new in the version and broke rules, for as long as these are its rules; returns the '
    'partitions: none when a resource would have nothing left.';
revoke execute on function ops.leave_out(text, text) from public;
grant execute on function ops.leave_out(text, text) to sluice_runner;
