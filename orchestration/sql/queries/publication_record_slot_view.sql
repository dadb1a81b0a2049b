-- What a slot view was pointed at, written in the transaction that pointed it.
insert into ops.slot_views (pipeline, slot, model, shape, version_id, relation_name)
values (%(pipeline)s, %(slot)s, %(model)s, %(shape)s, %(version_id)s, %(relation_name)s)
on conflict (slot, model, shape) do update
    set pipeline = excluded.pipeline,
        version_id = excluded.version_id,
        relation_name = excluded.relation_name
