-- What stands in the way of a version, what reviewers decide about it, and that this is kept for ever.

alter table ops.verdicts
    drop constraint verdicts_verdict_check,
    add constraint verdicts_verdict_check
        check (verdict in ('passed', 'warned', 'waived', 'failed', 'error'));
comment on column ops.verdicts.verdict is 'waived: it failed, and reviewers have approved all that did';
comment on column ops.versions.state is
    'candidate -> passed | held -> published -> retired -> published (rollback); held -> passed (approved) '
    '| rejected';

create table ops.breaches (
    breach_id bigint generated always as identity primary key,
    version_id text not null references ops.versions on delete cascade,
    run_id text not null,
    subject text not null,
    expectation text not null,
    what text not null,
    error text not null,
    severity text not null check (severity in ('critical', 'warning')),
    rule text,
    partition text,
    content text not null check (content ~ '^[0-9a-f]{64}$'),
    failing bigint,
    artifacts text[] not null default '{}',
    seen_at timestamptz not null default clock_timestamp()
);
create index breaches_version on ops.breaches (version_id);
comment on table ops.breaches is
    'What the last gate on a version saw and did not accept: each rule, in each partition that broke it.';
comment on column ops.breaches.subject is 'the suite, or the dbt data test; as in ops.judgements';
comment on column ops.breaches.expectation is 'type and arguments, as a digest; or the name of the test';
comment on column ops.breaches.rule is 'as in ops.judgements; null when nobody can see what decides it';
comment on column ops.breaches.partition is 'null: the statement is about all rows at once';
comment on column ops.breaches.content is
    'digest of what was seen: for rows of a partition that of the data which it is made from, else that of '
    'everything which decides';
comment on column ops.breaches.failing is 'rows that broke it; null when it does not count rows';
comment on column ops.breaches.artifacts is
    'what was new in the version, readers not having it, of the data that this is made from';

create table ops.waivers (
    waiver_id bigint generated always as identity primary key,
    pipeline text not null,
    version_id text not null,
    subject text not null,
    expectation text not null,
    what text not null,
    partition text,
    content text not null check (content ~ '^[0-9a-f]{64}$'),
    failing bigint,
    reason text not null check (reason <> ''),
    decided_by text not null default quarantine.decider(),
    decided_at timestamptz not null default clock_timestamp()
);
create index waivers_content on ops.waivers (pipeline, subject, expectation, content);
create index waivers_version on ops.waivers (version_id);
comment on table ops.waivers is
    'Rules that stay failed and keep no version from readers, in exactly what a reviewer saw; for ever.';
comment on column ops.waivers.version_id is 'in which it was seen, or the partition that was released; versions are dropped, waivers are not';
comment on column ops.waivers.failing is 'so many rows, not more';

create function ops.keep_waivers() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'waiver % stays as it is: decisions are kept for ever', old.waiver_id
        using errcode = 'SL010';
end
$$;
create trigger keep_waivers before update or delete on ops.waivers
    for each row execute function ops.keep_waivers();

alter table ops.judgements add column waivers bigint[] not null default '{}';
comment on table ops.judgements is
    'What was said of a rule about everything that a version holds: of these partitions by looking at them, '
    'of all others by the judgement on another version that has them too.';
comment on column ops.judgements.verdict is
    'the worst of what was said about any partition. failed, warned: no basis for later gates unless the '
    'pipeline accepts that; waived: it failed, and a reviewer approved';
comment on column ops.judgements.waivers is 'those that it rests on, also by other judgements';

create view ops.waived_breaches as
select b.breach_id, b.version_id, b.subject, b.rule, w.waiver_id
from ops.breaches as b
join ops.versions as v on v.version_id = b.version_id
join ops.waivers as w
    on w.pipeline = v.pipeline
    and w.subject = b.subject
    and w.expectation = b.expectation
    and w.content = b.content
    and coalesce(b.failing <= w.failing, b.failing is null);
comment on view ops.waived_breaches is 'What stood in the way of a version and was waived since, in whatever version.';

-- A partition can be kept out by the gate, too; then the entry says what a release waives.
alter table quarantine.partitions add column breaches jsonb;
comment on column quarantine.partitions.breaches is
    'what the gate saw in it, as in ops.breaches; null when it was kept out before any gate';
comment on column quarantine.partitions.decision is
    'held -> released | discarded; discarded -> released';

create function ops.set_aside(p_version_id text, p_decision text, p_reason text) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text;
    v_blamed text[];
    v_set_aside text[] := '{}';
    v_entry record;
begin
    select v.pipeline into strict v_pipeline from ops.versions v where v.version_id = p_version_id;
    -- Where rules name partitions, these are to blame, and not everything that is new.
    v_blamed := array(
        select distinct x.artifact_id from ops.breaches b cross join lateral unnest(b.artifacts) as x (artifact_id)
        where b.version_id = p_version_id
            and b.breach_id not in (select w.breach_id from ops.waived_breaches w where w.version_id = p_version_id)
            and (b.partition is not null or not exists (
                select from ops.breaches named
                where named.version_id = p_version_id and named.partition is not null
                    and named.artifacts <> '{}' and named.breach_id not in (
                        select w.breach_id from ops.waived_breaches w where w.version_id = p_version_id
                    )
            ))
    );
    -- The rows that a judgement or a release of these partitions locks too.
    perform from ops.artifacts a where a.artifact_id = any(v_blamed) order by a.artifact_id for update;
    for v_entry in
        insert into quarantine.partitions as p (pipeline, resource, partition, artifact_id, run_id, rule,
            error, breaches, decision, decided_by, decided_at, decision_reason)
        select v_pipeline, a.resource, a.partition, a.artifact_id, max(b.run_id), b.rule, max(b.error),
            jsonb_agg(b.seen), p_decision,
            case when p_decision <> 'held' then quarantine.decider() end,
            case when p_decision <> 'held' then clock_timestamp() end, p_reason
        from (
            select c.run_id, c.error, c.artifacts,
                case when starts_with(c.subject, 'dbt:') then 'dbt' else c.subject end || ':' || c.what as rule,
                jsonb_build_object('subject', c.subject, 'expectation', c.expectation, 'what', c.what,
                    'partition', c.partition, 'content', c.content, 'failing', c.failing) as seen
            from ops.breaches c where c.version_id = p_version_id
        ) b
        cross join lateral unnest(b.artifacts) as x (artifact_id)
        join ops.artifacts a using (artifact_id)
        where a.artifact_id = any(v_blamed) and a.state = 'adopted' and a.acceptance = 'accepted'
            and not exists (
                select from ops.publication_pointer pointer
                join ops.versions shown using (version_id)
                join ops.manifest_artifacts m on m.manifest_id = shown.manifest_id
                join ops.artifacts had on had.artifact_id = m.artifact_id
                where pointer.pipeline = v_pipeline and had.resource = a.resource
                    and had.window_name = a.window_name and had.checksum = a.checksum
                    and had.loaded = a.loaded
            )
        group by a.resource, a.partition, a.artifact_id, b.rule
        on conflict (artifact_id, rule) do update
            set run_id = excluded.run_id, error = excluded.error, breaches = excluded.breaches,
                decision = excluded.decision, decided_by = excluded.decided_by,
                decided_at = excluded.decided_at, decision_reason = excluded.decision_reason,
                quarantined_at = clock_timestamp()
        returning p.partition_id, p.rule, p.artifact_id, p.partition
    loop
        v_set_aside := array_append(v_set_aside, v_entry.artifact_id);
        if p_decision <> 'held' then
            insert into quarantine.decisions (partition_id, event, reason, detail, artifact_id)
            values (v_entry.partition_id, p_decision, p_reason, v_entry.rule, v_entry.artifact_id);
        end if;
    end loop;
    update ops.artifacts a
    set acceptance = 'rejected', acceptance_reason = left_out.message
    from (
        select p.artifact_id, string_agg(p.error, '; ' order by p.partition_id) as message
        from quarantine.partitions p where p.artifact_id = any(v_set_aside) and p.breaches is not null
        group by p.artifact_id
    ) as left_out
    where left_out.artifact_id = a.artifact_id;
    return array(
        select a.partition from ops.artifacts a where a.artifact_id = any(v_set_aside) order by 1
    );
end
$$;
comment on function ops.set_aside is
    'Keeps out what was new in the version and broke rules, unless readers have it by now: later versions '
    'have its last good content. Returns the partitions.';

create function ops.require_held(p_version_id text, p_state text) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_last ops.operator_actions;
begin
    if p_state = 'held' then
        return;
    end if;
    select * into v_last from ops.operator_actions o
    where o.target = p_version_id and o.action in ('review_approve', 'review_reject')
    order by o.action_id desc limit 1;
    raise exception 'version % waits for no decision: %', p_version_id, case
        when p_state is null then 'there is none of this name'
        when v_last.action = 'review_reject' then 'it was rejected by ' || v_last.actor || ': ' || v_last.reason
        when v_last.action = 'review_approve' then 'it was approved by ' || v_last.actor || ': ' || v_last.reason
        when p_state = 'rejected' then 'its pipeline rejects what does not pass'
        when p_state = 'candidate' then 'its gate has not come to an end'
        else 'it passed its gate'
    end using errcode = 'SL010';
end
$$;
comment on function ops.require_held is 'Raises SL010, saying why, for a version that nobody has to decide on.';

create function ops.approve_version(p_version_id text, p_reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_state text;
begin
    -- The row that its gate locks too: it sees the waiver, or this sees what it saw.
    select v.state into v_state from ops.versions v where v.version_id = p_version_id for update;
    if v_state in ('passed', 'published', 'retired') and exists (
        select from ops.operator_actions o where o.target = p_version_id and o.action = 'review_approve'
    ) then
        return false;
    end if;
    perform ops.require_held(p_version_id, v_state);
    if not exists (select from ops.breaches b where b.version_id = p_version_id) then
        raise exception 'nobody kept what the gate saw in version %; let it be judged again first, with: '
            'sluice replay RUN --stage gate', p_version_id using errcode = 'SL010';
    end if;
    insert into ops.waivers (pipeline, version_id, subject, expectation, what, partition, content, failing,
        reason)
    select v.pipeline, b.version_id, b.subject, b.expectation, b.what, b.partition, b.content, b.failing,
        p_reason
    from ops.breaches b join ops.versions v using (version_id)
    where b.version_id = p_version_id
        and b.breach_id not in (select w.breach_id from ops.waived_breaches w where w.version_id = p_version_id)
    order by b.breach_id;
    update ops.judgements j
    set verdict = 'waived', waivers = j.waivers || array(
        select distinct w.waiver_id from ops.waived_breaches w
        where w.version_id = p_version_id and w.subject = j.subject and w.rule = j.rule
        order by 1
    )
    where j.version_id = p_version_id
        and (j.subject, j.rule) in (
            select b.subject, b.rule from ops.breaches b where b.version_id = p_version_id
        );
    update ops.versions v set state = 'passed' where v.version_id = p_version_id;
    insert into ops.operator_actions (action, target, reason, actor)
    values ('review_approve', p_version_id, p_reason, quarantine.decider());
    return true;
end
$$;
comment on function ops.approve_version is
    'Waives what stands in the way of a held version; false when that was done before. SL010: not possible.';

create function ops.reject_version(p_version_id text, p_reason text) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_state text;
    v_set_aside text[];
begin
    select v.state into v_state from ops.versions v where v.version_id = p_version_id for update;
    if v_state = 'rejected' and exists (
        select from ops.operator_actions o where o.target = p_version_id and o.action = 'review_reject'
    ) then
        return null;
    end if;
    perform ops.require_held(p_version_id, v_state);
    v_set_aside := ops.set_aside(p_version_id, 'discarded', p_reason);
    update ops.versions v set state = 'rejected' where v.version_id = p_version_id;
    insert into ops.operator_actions (action, target, reason, actor)
    values ('review_reject', p_version_id, p_reason, quarantine.decider());
    return v_set_aside;
end
$$;
comment on function ops.reject_version is
    'Gives a held version up, and sets aside what was new in it and broke rules; returns these partitions, '
    'null when that was done before. SL010: not possible.';

-- What a gate kept out is released from the gate's rules, so that the next gate lets it pass.
create or replace function quarantine.release_partition(p_artifact_id text, p_reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_artifact ops.artifacts;
    v_top text;
begin
    -- The row that a judgement of the partition locks too: one of them sees what the other did.
    select a.* into v_artifact from ops.artifacts a where a.artifact_id = p_artifact_id for update;
    if v_artifact.acceptance = 'accepted' then
        return false;
    end if;
    select a.partition into v_top from ops.artifacts a
    where a.pipeline = v_artifact.pipeline and a.resource = v_artifact.resource
        and a.window_name = v_artifact.window_name and a.state = 'adopted'
    order by a.source_revision desc, a.revision desc limit 1;
    if v_artifact.acceptance is distinct from 'rejected' or v_top is distinct from v_artifact.partition
    then
        raise exception '% cannot be released: %', coalesce(v_artifact.partition, p_artifact_id),
            case when v_artifact.acceptance = 'rejected' then v_top || ' came after it, and counts'
                else 'no rule kept it out' end using errcode = 'SL010';
    elsif quarantine.discarded_in(p_artifact_id) is not null then
        raise exception '% cannot be released: it has %, discarded since', v_artifact.partition,
            quarantine.discarded_in(p_artifact_id) using errcode = 'SL010';
    end if;
    with released as (
        update quarantine.partitions p
        set decision = 'released', decided_by = quarantine.decider(), decided_at = clock_timestamp(),
            decision_reason = p_reason
        where p.artifact_id = p_artifact_id and p.decision in ('held', 'discarded')
        returning p.partition_id, p.rule, p.breaches
    ), waived as (
        insert into ops.waivers (pipeline, version_id, subject, expectation, what, partition, content,
            failing, reason)
        select v_artifact.pipeline, v_artifact.partition, s.subject, s.expectation, s.what, s.partition,
            s.content, s.failing, p_reason
        from released r
        cross join lateral jsonb_to_recordset(coalesce(r.breaches, '[]')) as s (subject text,
            expectation text, what text, partition text, content text, failing bigint)
        order by r.partition_id
    )
    insert into quarantine.decisions (partition_id, event, reason, detail, artifact_id)
    select r.partition_id, 'released', p_reason, r.rule, p_artifact_id from released r order by 1;
    -- A version that was rejected for this, and for nothing that still is, waits for a decision again.
    update ops.versions v set state = 'held'
    where v.state = 'rejected'
        and exists (
            select from ops.operator_actions o
            where o.target = v.version_id and o.action = 'review_reject'
        )
        and exists (
            select from ops.breaches b where b.version_id = v.version_id and p_artifact_id = any(b.artifacts)
        )
        and not exists (
            select from ops.manifest_artifacts m join ops.artifacts a using (artifact_id)
            where m.manifest_id = v.manifest_id and a.artifact_id <> p_artifact_id
                and a.acceptance = 'rejected'
        );
    update ops.artifacts a
    set acceptance = 'accepted',
        acceptance_reason = 'released by ' || quarantine.decider() || ': ' || p_reason
            || coalesce('; ' || a.acceptance_reason, '')
    where a.artifact_id = p_artifact_id;
    insert into ops.operator_actions (action, target, reason, actor)
    values ('quarantine_release', v_artifact.partition, p_reason, quarantine.decider());
    return true;
end
$$;

-- Whoever decides about a held version may look at it.
create or replace function ops.create_version_schema(p_version_id text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if p_version_id !~ '^v_[0-9a-f]{16}$' then
        raise exception 'not a version id: %', p_version_id using errcode = 'invalid_parameter_value';
    end if;
    execute format('create schema if not exists %I', p_version_id);
    execute format('grant usage, create on schema %I to sluice_transformer', p_version_id);
    execute format('grant usage on schema %I to sluice_gate, sluice_runner, sluice_analyst, sluice_reviewer',
        p_version_id);
end
$$;

revoke execute on function
    ops.keep_waivers(), ops.set_aside(text, text, text), ops.require_held(text, text),
    ops.approve_version(text, text), ops.reject_version(text, text)
from public;
grant execute on function ops.approve_version(text, text), ops.reject_version(text, text)
    to sluice_reviewer;
grant select on ops.breaches, ops.waivers, ops.waived_breaches to sluice_runner, sluice_reviewer;
-- A preview says what a run would publish.
grant select on ops.waivers to sluice_analyst;
grant insert, delete on ops.breaches to sluice_runner;
grant update (waivers) on ops.judgements to sluice_runner;
