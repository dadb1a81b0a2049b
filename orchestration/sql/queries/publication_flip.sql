-- The flip: the publication, its message to the owner, and the pointer, if it still names what the caller expects.
with publication as (
    insert into ops.publications
        (pipeline, version_id, previous_version_id, kind, slot, run_id, reason, actor)
    values (
        %(pipeline)s, %(version_id)s, %(expected)s, %(kind)s, %(slot)s, %(run_id)s, %(reason)s,
        coalesce(%(actor)s, session_user)
    )
    returning publication_id
),

message as (
    insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload)
    select
        'published:' || p.publication_id, %(pipeline)s, %(run_id)s, %(message)s, %(owner)s,
        %(payload)s::jsonb || jsonb_build_object('publication_id', p.publication_id)
    from publication as p
),

flipped as (
    insert into ops.publication_pointer as pointer
        (pipeline, active_slot, version_id, publication_id, flipped_by)
    select %(pipeline)s, %(slot)s, %(version_id)s, p.publication_id, pg_current_xact_id()
    from publication as p
    on conflict (pipeline) do update
        set active_slot = excluded.active_slot,
            version_id = excluded.version_id,
            publication_id = excluded.publication_id,
            flipped_by = excluded.flipped_by
        where pointer.version_id is not distinct from %(expected)s
    returning pointer.flipped_by
)

select p.publication_id, f.flipped_by::text as flipped_by
from publication as p
left join flipped as f on true
