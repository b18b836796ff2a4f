BEGIN TRANSACTION;
CREATE TABLE `message` (
          `id` text PRIMARY KEY,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_message_session_id_session_id_fk` FOREIGN KEY (`session_id`) REFERENCES `session`(`id`) ON DELETE CASCADE
        );
INSERT INTO "message" VALUES('msg_20a233c01001cYucsd5xU8Xejz','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466411009,1795466412714,'{"role":"user","time":{"created":1795466411009},"agent":"build","model":{"providerID":"scripted","modelID":"m"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_20a233e77001dSHTqzpvyE6ZO2','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466411639,1795466412597,'{"parentID":"msg_20a233c01001cYucsd5xU8Xejz","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/shop","root":"/home/user/shop"},"cost":0,"tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"scripted","time":{"created":1795466411639,"completed":1795466412596},"finish":"tool-calls"}');
INSERT INTO "message" VALUES('msg_20a234238001YCwTo1NinLekdL','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412600,1795466412880,'{"parentID":"msg_20a233c01001cYucsd5xU8Xejz","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/shop","root":"/home/user/shop"},"cost":0,"tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"scripted","time":{"created":1795466412600,"completed":1795466412879},"finish":"stop"}');
INSERT INTO "message" VALUES('msg_20a234819001GvshtkfhTVTagc','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466414105,1795466415173,'{"role":"user","time":{"created":1795466414105},"agent":"build","model":{"providerID":"scripted","modelID":"m"},"summary":{"diffs":[]}}');
INSERT INTO "message" VALUES('msg_20a234be1001pO2MaQSCvoH1Cx','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466415073,1795466416011,'{"parentID":"msg_20a234819001GvshtkfhTVTagc","role":"assistant","mode":"build","agent":"build","path":{"cwd":"/home/user/shop","root":"/home/user/shop"},"cost":0,"tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"modelID":"m","providerID":"scripted","time":{"created":1795466415073,"completed":1795466416006},"finish":"stop"}');
CREATE TABLE `part` (
          `id` text PRIMARY KEY,
          `message_id` text NOT NULL,
          `session_id` text NOT NULL,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `data` text NOT NULL,
          CONSTRAINT `fk_part_message_id_message_id_fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE
        );
INSERT INTO "part" VALUES('prt_20a233c070011kcFraPOPa0cGY','msg_20a233c01001cYucsd5xU8Xejz','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466411622,1795466411624,'{"type":"text","text":"\"We always deploy on Fridays.\""}');
INSERT INTO "part" VALUES('prt_20a234188001YRlDUUifad9B7S','msg_20a233e77001dSHTqzpvyE6ZO2','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412425,1795466412426,'{"snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-start"}');
INSERT INTO "part" VALUES('prt_20a23418b001aoC77ejjbogXSY','msg_20a233e77001dSHTqzpvyE6ZO2','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412427,1795466412444,'{"type":"text","text":"I look into it.","time":{"start":1795466412427,"end":1795466412443}}');
INSERT INTO "part" VALUES('prt_20a23418e001f9gQgQ7q6LLDDd','msg_20a233e77001dSHTqzpvyE6ZO2','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412430,1795466412517,'{"type":"tool","tool":"bash","callID":"call_0","state":{"status":"completed","input":{"command":"echo TOOL-OUTPUT","description":"x"},"output":"TOOL-OUTPUT\n","metadata":{"output":"TOOL-OUTPUT\n","exit":0,"truncated":false},"title":"echo TOOL-OUTPUT","time":{"start":1795466412437,"end":1795466412517}}}');
INSERT INTO "part" VALUES('prt_20a23420b001tiq5wCeOViNVXM','msg_20a233e77001dSHTqzpvyE6ZO2','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412555,1795466412557,'{"reason":"tool-calls","snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-finish","tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_20a2342b6001UGm5vvgjlwlFsW','msg_20a234238001YCwTo1NinLekdL','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412726,1795466412727,'{"snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-start"}');
INSERT INTO "part" VALUES('prt_20a2342b8001c3vEDFBHPHBCuO','msg_20a234238001YCwTo1NinLekdL','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412728,1795466412730,'{"type":"text","text":"Done, as you said.","time":{"start":1795466412728,"end":1795466412730}}');
INSERT INTO "part" VALUES('prt_20a234315001Q3u70mn0zlBP35','msg_20a234238001YCwTo1NinLekdL','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466412821,1795466412822,'{"reason":"stop","snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-finish","tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
INSERT INTO "part" VALUES('prt_20a23481b001VaoOy9mEXKKEt5','msg_20a234819001GvshtkfhTVTagc','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466415058,1795466415060,'{"type":"text","text":"\"Never push to the branch main.\""}');
INSERT INTO "part" VALUES('prt_20a234f1f001Ik3Sl0iMdAxRlP','msg_20a234be1001pO2MaQSCvoH1Cx','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466415903,1795466415905,'{"snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-start"}');
INSERT INTO "part" VALUES('prt_20a234f220015KZwPATxO17Trl','msg_20a234be1001pO2MaQSCvoH1Cx','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466415906,1795466415909,'{"type":"text","text":"Done, as you said.","time":{"start":1795466415906,"end":1795466415909}}');
INSERT INTO "part" VALUES('prt_20a234f5f001KReU9SThKiOweD','msg_20a234be1001pO2MaQSCvoH1Cx','ses_df5dcc439ffe9F3SKsjDJGnCGg',1795466415967,1795466415969,'{"reason":"stop","snapshot":"7ab0af33f19dc74d1186047ac9b6198a3b2a7f01","type":"step-finish","tokens":{"total":18,"input":11,"output":7,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0}');
CREATE TABLE `session` (
          `id` text PRIMARY KEY,
          `project_id` text NOT NULL,
          `workspace_id` text,
          `parent_id` text,
          `slug` text NOT NULL,
          `directory` text NOT NULL,
          `path` text,
          `title` text NOT NULL,
          `version` text NOT NULL,
          `share_url` text,
          `summary_additions` integer,
          `summary_deletions` integer,
          `summary_files` integer,
          `summary_diffs` text,
          `metadata` text,
          `cost` real DEFAULT 0 NOT NULL,
          `tokens_input` integer DEFAULT 0 NOT NULL,
          `tokens_output` integer DEFAULT 0 NOT NULL,
          `tokens_reasoning` integer DEFAULT 0 NOT NULL,
          `tokens_cache_read` integer DEFAULT 0 NOT NULL,
          `tokens_cache_write` integer DEFAULT 0 NOT NULL,
          `revert` text,
          `permission` text,
          `agent` text,
          `model` text,
          `time_created` integer NOT NULL,
          `time_updated` integer NOT NULL,
          `time_compacting` integer,
          `time_archived` integer,
          CONSTRAINT `fk_session_project_id_project_id_fk` FOREIGN KEY (`project_id`) REFERENCES `project`(`id`) ON DELETE CASCADE
        );
INSERT INTO "session" VALUES('ses_df5dcc439ffe9F3SKsjDJGnCGg','global',NULL,NULL,'eager-panda','/home/user/shop','','A title','1.18.33',NULL,0,0,0,NULL,NULL,0.0,33,21,0,0,0,NULL,'[{"permission":"question","pattern":"*","action":"deny"},{"permission":"plan_enter","pattern":"*","action":"deny"},{"permission":"plan_exit","pattern":"*","action":"deny"}]','build','{"id":"m","providerID":"scripted","variant":"default"}',1795466410950,1795466416017,NULL,NULL);
CREATE INDEX `message_session_time_created_id_idx` ON `message` (`session_id`,`time_created`,`id`);
CREATE INDEX `part_message_id_id_idx` ON `part` (`message_id`,`id`);
CREATE INDEX `part_session_idx` ON `part` (`session_id`);
CREATE INDEX `session_project_idx` ON `session` (`project_id`);
CREATE INDEX `session_workspace_idx` ON `session` (`workspace_id`);
CREATE INDEX `session_parent_idx` ON `session` (`parent_id`);
COMMIT;
