-- Decisions about what was kept out: made through functions, kept for ever, and every count agrees.

-- A retry makes a new revision out of a fetched one, its origin. What is fetched later outranks it.
alter table ops.artifacts
    add column origin_id text references ops.artifacts,
    add column origin_revision integer,
    add column source_revision integer generated always as (coalesce(origin_revision, revision)) stored,
    add constraint artifacts_come_after_their_origin check (
        (origin_id is null) = (origin_revision is null) and origin_revision < revision
    );
drop index ops.artifacts_accepted;
create index artifacts_accepted on ops.artifacts
    (pipeline, resource, window_name, source_revision desc, revision desc) where acceptance = 'accepted';
create index artifacts_of_window on ops.artifacts
    (pipeline, resource, window_name, source_revision desc, revision desc) where state = 'adopted';
create index artifacts_by_origin on ops.artifacts (origin_id) where origin_id is not null;
comment on column ops.artifacts.origin_id is
    'of a retry: the fetched artifact whose records were retried; null for what was fetched';
comment on column ops.artifacts.source_revision is
    'revision at which the source was asked; of two artifacts of a window the one with the larger '
    '(source_revision, revision) counts';

alter table quarantine.records
    add column altered text[] not null default '{}',
    add column erased_at timestamptz,
    add column correction jsonb,
    add column is_corrected boolean generated always as (correction is not null) stored,
    add column retried_into text references ops.artifacts,
    add column superseded_by text references ops.artifacts,
    add column superseded_how text
        check (superseded_how in ('corrected', 'changed', 'withdrawn', 'unfit')),
    add constraint records_retried_into_something check ((decision = 'retried') = (retried_into is not null)),
    add constraint records_corrected_by_a_retry check (correction is null or decision = 'retried'),
    add constraint records_superseded_corrections check (
        (superseded_by is null) = (superseded_how is null)
        and (superseded_by is null or correction is not null)
    ),
    add constraint records_decided_by_somebody check (
        decision = 'held' or (decided_by is not null and decided_at is not null and decision_reason <> '')
    );
create index records_by_partition on quarantine.records (pipeline, resource, quarantined_at desc);
create index records_retried_into on quarantine.records (retried_into);
create index records_superseded_by on quarantine.records (superseded_by);
create index records_corrections on quarantine.records (pipeline, resource)
    where correction is not null and superseded_by is null;
comment on column quarantine.records.decision is
    'held -> retried | discarded; retried -> held when the revision that has it is not accepted';
comment on column quarantine.records.altered is
    'fields of the payload that could not be kept as they were sent';
comment on column quarantine.records.erased_at is
    'when retention erased what the record held; that it was, and what was decided, stays for ever';
comment on column quarantine.records.correction is
    'the redacted record that a reviewer gave instead of the payload, while it is retried';
comment on column quarantine.records.retried_into is 'the accepted artifact that first had it';
comment on column quarantine.records.superseded_by is
    'the fetched artifact with which the source''s own word took the place of the correction';

-- Before this migration nothing said which values were kept in another form; these forms are ours.
update quarantine.records as r
set altered = array(
    select e.key from jsonb_each(r.payload) as e (key, value)
    where jsonb_typeof(e.value) = 'string' and (
        e.value #>> '{}' in ('(an object)', '(a list)', 'nan', 'inf', '-inf')
        or e.value #>> '{}' ~ '… \([0-9]+ characters\)$|\\u0000|\\ud[89a-f][0-9a-f]{2}'
    )
    order by 1
)
where jsonb_typeof(r.payload) = 'object';

-- The login decides. Where several people share it, they say who they are, as far as that can be known.
create function quarantine.decider() returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(nullif(current_setting('sluice.operator', true), '') || ' as ', '') || session_user
$$;
comment on function quarantine.decider is
    'Who decides here: the login role, and whom the setting sluice.operator names.';

alter table quarantine.partitions
    add constraint partitions_decided_by_somebody check (
        decision = 'held' or (decided_by is not null and decided_at is not null and decision_reason <> '')
    );
comment on column quarantine.partitions.decision is 'held -> released';

create table quarantine.retries (
    retry_id bigint generated always as identity primary key,
    pipeline text not null,
    resource text not null,
    window_name text not null,
    revision integer not null,
    partition text not null,
    origin_id text not null references ops.artifacts,
    origin_revision integer not null check (origin_revision < revision),
    status text not null default 'open' check (status in ('open', 'loaded', 'replaced', 'obsolete')),
    base_id text references ops.artifacts,
    artifact_id text unique references ops.artifacts,
    replaced_by bigint references quarantine.retries deferrable initially deferred,
    requested_by text not null default quarantine.decider(),
    requested_at timestamptz not null default clock_timestamp(),
    settled_at timestamptz,
    unique (pipeline, partition),
    check ((status = 'loaded') = (artifact_id is not null and base_id is not null)),
    check ((status = 'replaced') = (replaced_by is not null))
);
create unique index retries_one_open on quarantine.retries (pipeline, resource, window_name)
    where status = 'open';
create index retries_by_base on quarantine.retries (base_id);
create index retries_by_origin on quarantine.retries (origin_id, revision desc);
comment on table quarantine.retries is 'Revisions that reviewers asked for: what is accepted, and more.';
comment on column quarantine.retries.status is
    'open -> loaded | replaced (a later retry has its records too) | obsolete (the source was asked again)';
comment on column quarantine.retries.base_id is 'the artifact whose rows it has besides the retried records';

create table quarantine.retry_records (
    retry_id bigint not null references quarantine.retries,
    record_id bigint not null references quarantine.records,
    correction jsonb,
    reason text not null check (reason <> ''),
    requested_by text not null default quarantine.decider(),
    outcome text check (outcome in ('loaded', 'held')),
    primary key (retry_id, record_id)
);
create index retry_records_record on quarantine.retry_records (record_id);
comment on table quarantine.retry_records is
    'Which quarantined records a retry is about; once it is loaded, all that its artifact has.';

create table quarantine.decisions (
    decision_id bigint generated always as identity primary key,
    record_id bigint references quarantine.records,
    partition_id bigint references quarantine.partitions,
    event text not null check (event in (
        'retry_requested', 'retried', 'still_held', 'reopened', 'discarded', 'released',
        'applied_again', 'superseded'
    )),
    reason text,
    detail text,
    artifact_id text references ops.artifacts,
    run_id text,
    actor text not null default quarantine.decider(),
    decided_at timestamptz not null default clock_timestamp(),
    check (num_nonnulls(record_id, partition_id) = 1)
);
create index decisions_record on quarantine.decisions (record_id);
create index decisions_partition on quarantine.decisions (partition_id);
create index decisions_artifact on quarantine.decisions (artifact_id);
create index decisions_run on quarantine.decisions (run_id);
comment on table quarantine.decisions is 'What became of each entry, in order, by whom; only ever added to.';

-- What holds at the end of every transaction -----------------------------------------------------

create function quarantine.guard_records() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' then
        raise exception 'record-% stays: nothing leaves the quarantine', old.record_id
            using errcode = 'SL010';
    elsif tg_op = 'INSERT' then
        perform 1 from ops.artifacts a where a.artifact_id = new.artifact_id and a.state = 'loading';
        if not found then
            raise exception 'a record is quarantined with its artifact, not later'
                using errcode = 'SL010';
        end if;
    elsif old.erased_at is null and new.erased_at is not null and new.decision = old.decision
        and old.decision <> 'held' and new.payload = '{}'
    then
        return new;
    elsif (old.record_id, old.pipeline, old.resource, old.partition, old.artifact_id, old.run_id,
            old.source_ref, old.payload, old.altered, old.erased_at, old.quarantined_at)
        is distinct from (new.record_id, new.pipeline, new.resource, new.partition, new.artifact_id,
            new.run_id, new.source_ref, new.payload, new.altered, new.erased_at, new.quarantined_at)
    then
        raise exception 'record-%: what was kept out stays as it is', old.record_id
            using errcode = 'SL010';
    elsif old.decision in ('discarded', 'released') then
        raise exception 'record-% is decided: %', old.record_id, old.decision using errcode = 'SL010';
    end if;
    return case tg_op when 'DELETE' then old else new end;
end
$$;
create trigger guard_records before insert or update or delete on quarantine.records
    for each row execute function quarantine.guard_records();

-- fetched = loaded + quarantined is a constraint of the row; here it meets what the quarantine has.
create function quarantine.assert_reconciled() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_kept bigint;
begin
    if new.origin_id is null then
        select count(*) into v_kept from quarantine.records r where r.artifact_id = new.artifact_id;
    else
        select count(*) filter (where not exists (
            select from quarantine.retries t join quarantine.retry_records m using (retry_id)
            where t.artifact_id = new.artifact_id and m.record_id = r.record_id and m.outcome = 'loaded'
        )) into v_kept
        from quarantine.records r where r.artifact_id = new.origin_id;
    end if;
    if v_kept is distinct from new.quarantined then
        raise exception '%: % records are quarantined, but the artifact says %',
            new.partition, v_kept, new.quarantined using errcode = 'SL011';
    end if;
    return null;
end
$$;
create constraint trigger assert_reconciled after update of state on ops.artifacts
    deferrable initially deferred for each row when (new.state = 'adopted')
    execute function quarantine.assert_reconciled();

create function quarantine.assert_retried() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform 1
    from quarantine.retries t
    join quarantine.retry_records m using (retry_id)
    join ops.artifacts a using (artifact_id)
    where t.artifact_id = new.retried_into and m.record_id = new.record_id and m.outcome = 'loaded'
        and m.correction is not distinct from new.correction and a.acceptance = 'accepted';
    if not found then
        raise exception 'record-% counts as retried, but no accepted revision has it', new.record_id
            using errcode = 'SL011';
    end if;
    return null;
end
$$;
create constraint trigger assert_retried after update of decision, retried_into, correction
    on quarantine.records
    deferrable initially deferred for each row when (new.decision = 'retried')
    execute function quarantine.assert_retried();

-- What follows by itself --------------------------------------------------------------------------

create function quarantine.later_fetched(p_pipeline text, p_resource text, p_window text, p_revision integer)
returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select a.partition from ops.artifacts a
    where a.pipeline = p_pipeline and a.resource = p_resource and a.window_name = p_window
        and a.state in ('adopted', 'dropped') and a.origin_id is null and a.revision > p_revision
    order by a.revision desc limit 1
$$;
comment on function quarantine.later_fetched is
    'The newest partition that was fetched after this revision of the window; null if there is none.';

create function quarantine.discarded_in(p_artifact_id text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select string_agg('record-' || r.record_id, ', ' order by r.record_id)
    from quarantine.retries t join quarantine.retry_records m using (retry_id)
    join quarantine.records r using (record_id)
    where t.artifact_id = p_artifact_id and m.outcome = 'loaded' and r.decision = 'discarded'
$$;
comment on function quarantine.discarded_in is
    'Records that a retry has and that were discarded since: it can never be accepted. Null: none.';

-- A retry that was asked for and not loaded has no basis any more once the source was asked again.
create function quarantine.end_open_retries() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    update quarantine.retries t set status = 'obsolete', settled_at = clock_timestamp()
    where t.pipeline = new.pipeline and t.resource = new.resource and t.window_name = new.window_name
        and t.status = 'open' and t.origin_revision < new.revision;
    return null;
end
$$;
create trigger end_open_retries after update of state on ops.artifacts
    for each row when (new.state = 'adopted' and old.state <> 'adopted' and new.origin_id is null)
    execute function quarantine.end_open_retries();

-- Of what was retried, that counts which the accepted revision has that counts itself.
create function quarantine.follow_acceptance() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_counts ops.artifacts;
begin
    select a.* into v_counts from ops.artifacts a
    where a.origin_id = new.origin_id and a.acceptance = 'accepted'
    order by a.revision desc limit 1;
    with taken as (
        update quarantine.records r
        set decision = 'retried', retried_into = v_counts.artifact_id, correction = m.correction,
            decided_by = m.requested_by, decided_at = clock_timestamp(), decision_reason = m.reason
        from quarantine.retries t join quarantine.retry_records m using (retry_id)
        where t.artifact_id = v_counts.artifact_id and m.outcome = 'loaded' and m.record_id = r.record_id
            and (r.decision = 'held' or r.correction is distinct from m.correction or not exists (
                select from ops.artifacts a
                where a.artifact_id = r.retried_into and a.acceptance = 'accepted'
            ))
        returning r.record_id, r.decision_reason
    )
    insert into quarantine.decisions (record_id, event, reason, detail, artifact_id, run_id)
    select t.record_id, 'retried', t.decision_reason, 'loaded as ' || v_counts.partition,
        v_counts.artifact_id, v_counts.run_id
    from taken t order by 1;
    -- What only revisions have that count no more goes back to what it was before them.
    with reopened as (
        update quarantine.records r
        set decision = case when e.artifact_id is null then 'held' else 'retried' end,
            retried_into = e.artifact_id, correction = e.correction, decided_by = e.requested_by,
            decided_at = case when e.artifact_id is not null then clock_timestamp() end,
            decision_reason = e.reason
        from quarantine.records own
        join ops.artifacts had on had.artifact_id = own.retried_into
        left join lateral (
            select t.artifact_id, m.correction, m.requested_by, m.reason
            from quarantine.retry_records m join quarantine.retries t using (retry_id)
            join ops.artifacts a using (artifact_id)
            where m.record_id = own.record_id and m.outcome = 'loaded' and a.acceptance = 'accepted'
                and a.origin_id <> new.origin_id
            order by a.source_revision desc, a.revision desc limit 1
        ) e on true
        -- What retention dropped had been overtaken, which is no reason to decide again.
        where had.origin_id = new.origin_id and had.state = 'adopted' and r.record_id = own.record_id
            and not exists (
            select from quarantine.retries t join quarantine.retry_records m using (retry_id)
            where t.artifact_id = v_counts.artifact_id and m.record_id = own.record_id
                and m.outcome = 'loaded'
        )
        returning r.record_id
    )
    insert into quarantine.decisions (record_id, event, detail, artifact_id, run_id)
    select o.record_id, 'reopened',
        new.partition || ' is ' || new.acceptance || coalesce(': ' || new.acceptance_reason, ''),
        new.artifact_id, new.run_id
    from reopened o order by 1;
    if new.acceptance = 'rejected' and old.acceptance = 'pending' then
        insert into quarantine.decisions (record_id, event, detail, artifact_id, run_id)
        select r.record_id, 'still_held',
            new.partition || ' was not accepted' || coalesce(': ' || new.acceptance_reason, ''),
            new.artifact_id, new.run_id
        from quarantine.retries t join quarantine.retry_records m using (retry_id)
        join quarantine.records r using (record_id)
        where t.artifact_id = new.artifact_id and m.outcome = 'loaded' and r.decision = 'held'
        order by 1;
    end if;
    return null;
end
$$;
create trigger follow_acceptance after update of acceptance on ops.artifacts
    for each row
    when (new.origin_id is not null and new.acceptance <> old.acceptance and new.state = 'adopted')
    execute function quarantine.follow_acceptance();

-- What reviewers decide ---------------------------------------------------------------------------

create function quarantine.request_retry(p_items jsonb, p_reason text)
returns table (retry_id bigint, pipeline text, partition text, is_new boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_origin ops.artifacts;
    v_open quarantine.retries;
    v_newest quarantine.retries;
    v_record record;
    v_id bigint;
    v_revision integer;
begin
    if jsonb_array_length(p_items) = 0 or (
        select count(distinct (a.pipeline, a.resource, a.window_name)) <> 1
            or count(distinct r.record_id) <> jsonb_array_length(p_items)
        from jsonb_to_recordset(p_items) as i (record_id bigint)
        join quarantine.records r using (record_id) join ops.artifacts a using (artifact_id)
    ) then
        raise exception 'a retry is about different records of one partition' using errcode = 'SL010';
    end if;
    select a.* into v_origin
    from jsonb_to_recordset(p_items) as i (record_id bigint)
    join quarantine.records r using (record_id) join ops.artifacts a using (artifact_id)
    limit 1;
    -- Revisions are handed out one at a time, to retries and to runs.
    perform pg_advisory_xact_lock(hashtextextended('accept/' || v_origin.pipeline, 0));
    -- Retention may have dropped its rows, while a retry of it is in use.
    select a.* into v_origin from ops.artifacts a
    where a.pipeline = v_origin.pipeline and a.resource = v_origin.resource
        and a.window_name = v_origin.window_name and a.state in ('adopted', 'dropped')
        and a.origin_id is null
    order by a.revision desc, a.state, a.created_at desc limit 1;
    -- Always the retry first and its records after it, as `settle_retry` does.
    select t.* into v_open from quarantine.retries t
    where t.pipeline = v_origin.pipeline and t.resource = v_origin.resource
        and t.window_name = v_origin.window_name and t.status = 'open'
    for update;
    for v_record in
        select r.* from jsonb_to_recordset(p_items) as i (record_id bigint)
        join quarantine.records r using (record_id) order by r.record_id for update of r
    loop
        if v_record.decision not in ('held', 'retried') then
            raise exception 'record-% was % by %, which stands for ever; if the source corrected it, '
                'fetch its partition again with --refresh',
                v_record.record_id, v_record.decision, v_record.decided_by using errcode = 'SL010';
        elsif v_record.artifact_id <> v_origin.artifact_id
            and (v_record.correction is null or v_record.superseded_by is not null)
        then
            raise exception 'record-% belongs to %, but % was fetched since, and counts; see what of it '
                'is held with: sluice quarantine list --resource %',
                v_record.record_id, v_record.partition, v_origin.partition, v_record.resource
                using errcode = 'SL010';
        end if;
    end loop;
    select t.* into v_newest from quarantine.retries t
    where t.origin_id = v_origin.artifact_id and t.status in ('open', 'loaded')
    order by t.revision desc limit 1;
    if v_newest.retry_id is not null and not exists (
        select from jsonb_to_recordset(p_items) as i (record_id bigint, correction jsonb)
        where not exists (
            select from quarantine.retry_records m
            where m.retry_id = v_newest.retry_id and m.record_id = i.record_id
                and m.correction is not distinct from nullif(i.correction, 'null')
                and m.outcome is distinct from 'held'
        )
    ) then
        return query select v_newest.retry_id, v_newest.pipeline, v_newest.partition, false;
        return;
    end if;
    select 1 + greatest(
        (select max(a.revision) from ops.artifacts a where a.pipeline = v_origin.pipeline
            and a.resource = v_origin.resource and a.window_name = v_origin.window_name),
        (select max(p.revision) from ops.run_partitions p join ops.runs u using (run_id)
            where u.pipeline = v_origin.pipeline and p.resource = v_origin.resource
                and p.window_name = v_origin.window_name),
        (select max(t.revision) from quarantine.retries t where t.pipeline = v_origin.pipeline
            and t.resource = v_origin.resource and t.window_name = v_origin.window_name)
    ) into v_revision;
    v_id := nextval(pg_get_serial_sequence('quarantine.retries', 'retry_id'));
    update quarantine.retries t
    set status = 'replaced', replaced_by = v_id, settled_at = clock_timestamp()
    where t.retry_id = v_open.retry_id;
    insert into quarantine.retries (retry_id, pipeline, resource, window_name, revision, partition,
        origin_id, origin_revision)
    overriding system value
    values (v_id, v_origin.pipeline, v_origin.resource, v_origin.window_name, v_revision,
        v_origin.resource || '/' || v_origin.window_name || '@' || v_revision,
        v_origin.artifact_id, v_origin.revision);
    insert into quarantine.retry_records (retry_id, record_id, correction, reason)
    select v_id, i.record_id, nullif(i.correction, 'null'), p_reason
    from jsonb_to_recordset(p_items) as i (record_id bigint, correction jsonb);
    -- What another reviewer asked for meanwhile is not forgotten.
    insert into quarantine.retry_records (retry_id, record_id, correction, reason, requested_by)
    select v_id, m.record_id, m.correction, m.reason, m.requested_by
    from quarantine.retry_records m
    where m.retry_id = v_open.retry_id and v_open.origin_id = v_origin.artifact_id
    on conflict do nothing;
    insert into quarantine.decisions (record_id, event, reason, detail)
    select i.record_id, 'retry_requested', p_reason,
        case when nullif(i.correction, 'null') is null then 'as it was sent' else 'corrected by hand' end
        || ', as ' || v_origin.resource || '/' || v_origin.window_name || '@' || v_revision
    from jsonb_to_recordset(p_items) as i (record_id bigint, correction jsonb) order by 1;
    insert into ops.operator_actions (action, target, reason, actor)
    select 'quarantine_retry', 'record-' || i.record_id, p_reason, quarantine.decider()
    from jsonb_to_recordset(p_items) as i (record_id bigint) order by i.record_id;
    return query select t.retry_id, t.pipeline, t.partition, true
        from quarantine.retries t where t.retry_id = v_id;
end
$$;
comment on function quarantine.request_retry is
    '[{"record_id", "correction"}] of one window: the revision that will have them. Asked twice it is '
    'the same. SL010: not possible, and why.';

create function quarantine.keep_held(p_results jsonb, p_reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- The reason of a correction that does not do is no reason of the record itself.
    update quarantine.records r
    set rule = i.rule, field = i.field, error = i.error, contract_version = i.contract_version
    from jsonb_to_recordset(p_results) as i (record_id bigint, rule text, field text, error text,
        contract_version text, corrected boolean)
    where r.record_id = i.record_id and r.decision = 'held' and not i.corrected;
    insert into quarantine.decisions (record_id, event, reason, detail)
    select i.record_id, 'still_held', p_reason,
        case when i.corrected then 'the correction: ' else '' end || i.error
    from jsonb_to_recordset(p_results) as i (record_id bigint, error text, corrected boolean) order by 1;
    insert into ops.operator_actions (action, target, reason, actor)
    select 'quarantine_retry', 'record-' || i.record_id, p_reason, quarantine.decider()
    from jsonb_to_recordset(p_results) as i (record_id bigint) order by i.record_id;
end
$$;
comment on function quarantine.keep_held is
    'A retry came to nothing: [{"record_id", "rule", "field", "error", "contract_version", "corrected"}].';

create function quarantine.discard_records(p_record_ids bigint[], p_reason text)
returns table (record_id bigint, is_new boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_record record;
    v_retry text;
begin
    for v_record in
        select w.record_id as wanted, r.* from unnest(p_record_ids) as w (record_id)
        left join quarantine.records r using (record_id) order by w.record_id
    loop
        -- Whoever judges a retry that has it locks the retry's artifact too, then the record.
        perform 1 from ops.artifacts a
        where a.artifact_id in (
            select t.artifact_id from quarantine.retries t join quarantine.retry_records m using (retry_id)
            where m.record_id = v_record.wanted and m.outcome = 'loaded'
        ) order by a.artifact_id for update;
        perform 1 from quarantine.records r where r.record_id = v_record.wanted for update;
        select t.partition into v_retry
        from quarantine.retry_records m join quarantine.retries t using (retry_id)
        left join ops.artifacts a using (artifact_id)
        where m.record_id = v_record.wanted
            and (t.status = 'open' or (t.status = 'loaded' and a.acceptance = 'pending'
                and m.outcome = 'loaded'))
        limit 1;
        if v_retry is not null then
            raise exception 'record-% is being retried as %; finish that first: sluice quarantine retry '
                'record-%', v_record.wanted, v_retry, v_record.wanted using errcode = 'SL010';
        end if;
        update quarantine.records r
        set decision = 'discarded', decided_by = quarantine.decider(), decided_at = clock_timestamp(),
            decision_reason = p_reason
        where r.record_id = v_record.wanted and r.decision = 'held';
        is_new := found;
        record_id := v_record.wanted;
        if is_new then
            insert into quarantine.decisions (record_id, event, reason)
            values (v_record.wanted, 'discarded', p_reason);
            insert into ops.operator_actions (action, target, reason, actor)
            values ('quarantine_discard', 'record-' || v_record.wanted, p_reason, quarantine.decider());
        else
            select r.* into v_record from quarantine.records r where r.record_id = v_record.wanted;
            if v_record.decision is distinct from 'discarded' then
                raise exception 'record-% was %; only what is held can be discarded', record_id,
                    coalesce(v_record.decision || ' by ' || v_record.decided_by, 'never there')
                    using errcode = 'SL010';
            end if;
        end if;
        return next;
    end loop;
end
$$;
comment on function quarantine.discard_records is
    'Decides that held records are never loaded; is_new is false for what was discarded before.';

create function quarantine.release_partition(p_artifact_id text, p_reason text) returns boolean
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
        where p.artifact_id = p_artifact_id and p.decision = 'held'
        returning p.partition_id, p.rule
    )
    insert into quarantine.decisions (partition_id, event, reason, detail, artifact_id)
    select r.partition_id, 'released', p_reason, r.rule, p_artifact_id from released r order by 1;
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
comment on function quarantine.release_partition is
    'Accepts a rejected partition as it is, for the rules that it broke; false when it is accepted already.';

-- What the load of a partition settles, inside its adoption ----------------------------------------

create function quarantine.settle_retry(
    p_retry_id bigint, p_artifact_id text, p_base_id text, p_results jsonb
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_retry quarantine.retries;
    v_run_id text;
    v_kept bigint;
begin
    update quarantine.retries t
    set status = 'loaded', artifact_id = p_artifact_id, base_id = p_base_id,
        settled_at = clock_timestamp()
    where t.retry_id = p_retry_id and t.status = 'open'
    returning t.* into v_retry;
    if v_retry.retry_id is null then
        raise exception 'the retry was replaced by a later one, or its partition was fetched again'
            using errcode = 'SL012';
    end if;
    select a.run_id into strict v_run_id from ops.artifacts a
    where a.artifact_id = p_artifact_id and a.partition = v_retry.partition
        and a.pipeline = v_retry.pipeline and a.origin_id = v_retry.origin_id;
    update quarantine.retry_records m
    set outcome = case when i.loaded then 'loaded' else 'held' end
    from jsonb_to_recordset(p_results) as i (record_id bigint, loaded boolean)
    where m.retry_id = p_retry_id and m.record_id = i.record_id;
    -- What the base had and this retry does not replace is part of the new artifact too.
    insert into quarantine.retry_records as m
        (retry_id, record_id, correction, reason, requested_by, outcome)
    select p_retry_id, b.record_id, b.correction, b.reason, b.requested_by, 'loaded'
    from quarantine.retries t join quarantine.retry_records b using (retry_id)
    where t.artifact_id = p_base_id and b.outcome = 'loaded'
    on conflict (retry_id, record_id) do update
        set correction = excluded.correction, reason = excluded.reason,
            requested_by = excluded.requested_by, outcome = 'loaded'
        where m.outcome = 'held';
    update quarantine.records r
    set rule = i.rule, field = i.field, error = i.error, contract_version = i.contract_version
    from jsonb_to_recordset(p_results) as i (record_id bigint, loaded boolean, rule text, field text,
        error text, contract_version text, corrected boolean)
    where r.record_id = i.record_id and r.decision = 'held' and not i.loaded and not i.corrected;
    insert into quarantine.decisions (record_id, event, detail, artifact_id, run_id)
    select i.record_id, 'still_held',
        case when i.corrected then 'the correction: ' else '' end || i.error, p_artifact_id, v_run_id
    from jsonb_to_recordset(p_results) as i (record_id bigint, loaded boolean, error text,
        corrected boolean)
    where not i.loaded order by 1;
    select count(*) into v_kept from quarantine.records r
    where r.artifact_id = v_retry.origin_id and not exists (
        select from quarantine.retry_records m
        where m.retry_id = p_retry_id and m.record_id = r.record_id and m.outcome = 'loaded'
    );
    return v_kept;
end
$$;
comment on function quarantine.settle_retry is
    'How many records of the origin the new artifact still lacks. SL012: the retry counts no more.';

create function quarantine.settle_corrections(p_artifact_id text, p_outcomes jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_artifact ops.artifacts;
begin
    select a.* into strict v_artifact from ops.artifacts a where a.artifact_id = p_artifact_id;
    update quarantine.records r
    set superseded_by = p_artifact_id, superseded_how = i.how
    from jsonb_to_recordset(p_outcomes) as i (record_id bigint, how text)
    where r.record_id = i.record_id and i.how <> 'applied' and r.correction is not null
        and r.superseded_by is null and r.resource = v_artifact.resource;
    insert into quarantine.decisions (record_id, event, detail, artifact_id, run_id)
    select i.record_id, case i.how when 'applied' then 'applied_again' else 'superseded' end,
        v_artifact.partition || ': ' || i.detail, p_artifact_id, v_artifact.run_id
    from jsonb_to_recordset(p_outcomes) as i (record_id bigint, how text, detail text) order by 1;
end
$$;
comment on function quarantine.settle_corrections is
    'What a newly fetched artifact means for corrections in force: [{"record_id", "how", "detail"}].';

-- Retention keeps what was decided, and lets go of what it was about ------------------------------

create or replace function ops.drop_quarantine(p_records bigint[], p_partitions bigint[]) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
    with gone as (
        select q.record_id from quarantine.records q
        where q.record_id = any(p_records) and q.decision <> 'held' and q.erased_at is null
            and (q.correction is null or q.superseded_by is not null)
        order by q.record_id for update
    ), copies as (
        update quarantine.retry_records m set correction = '{}'
        from gone where m.record_id = gone.record_id and m.correction is not null
    ), records as (
        update quarantine.records q
        set payload = '{}', altered = '{(erased)}', erased_at = clock_timestamp(),
            correction = case when q.correction is not null then '{}'::jsonb end
        from gone where q.record_id = gone.record_id returning 1
    )
    select count(*) from records
$$;
comment on function ops.drop_quarantine is
    'Erases what records held that were decided on, but for corrections in force; the decisions stay.';

create or replace function ops.drop_artifacts(p_lease text, p_fence bigint, p_artifacts text[])
returns setof text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_pipeline text := ops.pipeline_of_build_lease(p_lease, p_fence);
begin
    return query
    update ops.artifacts a set state = 'dropped', acceptance = 'pending'
    where a.artifact_id = any(p_artifacts)
        and a.pipeline = v_pipeline
        and a.state = 'adopted'
        and not exists (select from ops.manifest_artifacts m where m.artifact_id = a.artifact_id)
        and not exists (
            select from ops.open_runs r join ops.run_partitions p using (run_id)
            where r.pipeline = a.pipeline and p.resource = a.resource
                and p.window_name = a.window_name and p.revision = a.revision
        )
        and not exists (
            select from quarantine.retries t
            where t.status = 'open' and t.origin_id in (a.artifact_id, a.origin_id)
        )
        and exists (
            select from ops.artifacts newer
            where newer.pipeline = a.pipeline and newer.resource = a.resource
                and newer.window_name = a.window_name and newer.state = 'adopted'
                and (newer.source_revision, newer.revision) > (a.source_revision, a.revision)
        )
        and (
            a.acceptance <> 'accepted'
            or exists (
                select from ops.artifacts newer
                where newer.pipeline = a.pipeline and newer.resource = a.resource
                    and newer.window_name = a.window_name and newer.acceptance = 'accepted'
                    and (newer.source_revision, newer.revision) > (a.source_revision, a.revision)
            )
        )
    returning a.artifact_id;
end
$$;

create or replace function ops.forget_artifacts(p_artifacts text[]) returns setof text
language sql security definer set search_path = pg_catalog, pg_temp as $$
    delete from ops.artifacts a
    where a.artifact_id = any(p_artifacts)
        and (
            a.state = 'dropped'
            or a.state = 'abandoned' and a.created_at < clock_timestamp() - interval '7 days'
        )
        and not exists (
            select from quarantine.records q
            where a.artifact_id in (q.artifact_id, q.retried_into, q.superseded_by)
        )
        and not exists (select from quarantine.partitions q where q.artifact_id = a.artifact_id)
        and not exists (
            select from quarantine.retries t
            where a.artifact_id in (t.origin_id, t.base_id, t.artifact_id)
        )
        and not exists (select from quarantine.decisions d where d.artifact_id = a.artifact_id)
        and not exists (select from ops.artifacts later where later.origin_id = a.artifact_id)
        and not exists (select from ops.run_partitions p where p.artifact_id = a.artifact_id)
    returning a.artifact_id
$$;

-- Who may do it -----------------------------------------------------------------------------------

revoke execute on all functions in schema quarantine from public;
-- Reviewers decide through functions and change nothing by hand.
revoke update (decision, decided_by, decided_at, decision_reason)
    on quarantine.records, quarantine.partitions from sluice_reviewer;
grant execute on function
    quarantine.request_retry(jsonb, text),
    quarantine.keep_held(jsonb, text),
    quarantine.discard_records(bigint[], text),
    quarantine.release_partition(text, text)
to sluice_reviewer;
grant execute on function quarantine.discarded_in(text) to sluice_runner;
grant execute on function quarantine.later_fetched(text, text, text, integer)
    to sluice_reviewer, sluice_runner, sluice_extractor;
grant execute on function
    quarantine.settle_retry(bigint, text, text, jsonb),
    quarantine.settle_corrections(text, jsonb)
to sluice_extractor;
grant select on quarantine.retries, quarantine.retry_records, quarantine.decisions
    to sluice_reviewer, sluice_extractor;
-- Whoever puts something in cannot decide about it at the same time.
revoke insert on quarantine.records from sluice_extractor;
grant insert (pipeline, resource, partition, artifact_id, run_id, source_ref, rule, field, error, payload,
    contract_version, altered) on quarantine.records to sluice_extractor;
revoke insert on quarantine.partitions from sluice_runner;
grant insert (pipeline, resource, partition, artifact_id, run_id, rule, error)
    on quarantine.partitions to sluice_runner;
-- What a record holds is for reviewers, and for the loader that put it there.
revoke select on quarantine.records from sluice_runner;
grant select (record_id, pipeline, resource, partition, artifact_id, run_id, source_ref, rule, field,
    error, contract_version, decision, decided_by, decided_at, decision_reason, quarantined_at, altered,
    erased_at, is_corrected, retried_into, superseded_by, superseded_how) on quarantine.records to sluice_runner;
grant select on quarantine.retries, quarantine.decisions to sluice_runner;
grant select (retry_id, record_id, reason, requested_by, outcome) on quarantine.retry_records
    to sluice_runner;
